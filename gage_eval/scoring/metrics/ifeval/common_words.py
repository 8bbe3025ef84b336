"""Common English words by the case in which they are written, for `gage_eval.scoring.metrics.ifeval.sentences`.

Words that at least two of GSM8K (MIT), PIQA (AFL-3.0), MMLU (MIT) and TruthfulQA (Apache-2.0) write in lower case, at
least three times altogether. `EITHER_CASE` has those that stand with a capital inside a sentence, too.
"""

LOWER_CASE = """
ability able above absolutely absorb absorbed accept accepted access accident accidentally according account accounted
accumulates accurately achieve achieved achievement acronym across action activated active activities actor actual
actually ad added adding addition additional addressed addresses adds adopted ads adult adults advantage advertisement
advertising affect affected afford again against aged ago agree agrees ahead aid airplane al alarm albums alcohol
algorithm algorithmic algorithms alive allow allowance allowed allowing allows almonds almost alone along alphabet
already also alternating alternative although aluminum always ambiguous among amount amounts amusement ancestor angle
angles animal animals ankles annual another answer answers antibacterial ants anymore anyone anything anywhere apart
apartment apartments apes app appear appearance appears apples application applied apply applying approach appropriate
approved apps aquarium are areas argument arguments arithmetic arm armor arms arrange arranged arrangement arrive
arrives article artifacts artificial artist aside ask asked asphalt assemble assignment assignments associated
association assuming assumption ate atomic atop attached attachment attempt attempting attend attendance attended
attic attitude attract attributed audience author automatic available average avoid avoiding away axe babies baby
babysit babysitting backseat backyard bacteria bagel bags bail bake baked bakes balance balanced balloon balloons
bamboo bananas band banned bare baseball based basement basic basis basket basketball baskets batch bathing bathroom
batter batteries battery bay beach bead beads bean beans beanstalk bear bears beat became because become becomes
becoming bed bedroom bedrooms beds bee been beer beeswax before began begin beginning begins behalf behavior behind
being belief believe believed below belt bench bend beneficial benefits bent berries bet between bias bicycles bid
bigger biggest bike billion bills bin binding bird birds birthday bit bite blank bleach blend blending blink blinks
block blocks blog blueberries board boards boat body boil boiling boils bolt bolts bonus books born borrow boss both
bottle bottom bought bounce bounces bouquet bow bowls boxes boys bracelet brain branch branches brand bread break
breaking breaks breast breath breathe brick bricks bridge briefly bring bringing brings broke broken brother brought
brownie brownies bubbling bucket buckets bucks budget bug bugs builds built bulb bulbs bulk bullied bumper bumps bunch
bunches bundle bundling buried burn burned burns bus buses bush bushes busy but button buttons buyer buying buys by
cable caffeine cage cages cakes calendar call called calls calories came camera camp campaign campus can cancer
candidate candied candles cane canned cans cap capable capacity capita capital caps car card care carefully carnival
carpet carpets carried carries carrot carrots carry carrying cars cart carton case cases cash cashier cast cat catch
catches cats caught cause caused causes causing ceiling celery cell cellphone cents cereal certain chair chairs chalk
chalkboard chance chances chandelier change changed changing characteristic charge charged charges charging cheaper
cheapest check checking checks cheddar cheese cheesecake cheesecakes chemicals cherry chest chew chickens child chips
chocolates choice choices choose chooses choosing chops chopsticks chosen circle circuit circular circulation
circumference cities citrus claim claimed class classes classical classified clay clean cleaned cleaner cleaners
cleaning cleans cleanse clearly clerk click client clients cliff climate climb clock close closed closely closer
closest clothes clothing clouds cloudy club cluster clusters cm coach coaches coal coaster coat coats cocktail code
codes coffee coin coins cold colder collar collect collected collecting collection collectively collects color colors
colour columns comb combination combined come comes comfortable comforter comic coming common commonly communicate
communications community companies compare compared competing competition complete completed completely completion
complexes component components composed computer computers concave concentrated concentration concerning concert
concerts conclude concluded condiments condition conditioner conditions cones confined confirmed connected connecting
connection conscious consecutive consequence consider considered considering considers consistency consistent
consistently consists console constant construction consume consumed consumers consumes consuming consumption contact
contacts contain contained container containers containing contains content contents continue continues contract
contracted contracts contribute control controlled convert converted convex convince cook cooked cooks cooled cooling
cools copy cord cords corner correct correctly cost costs couch could count counted counter counting countries counts
couple coupon court cousin cover covered covering cow coworkers crack cracked crackers cracking cracks craft crate
crayon crayons create created creates creating creature credit critical crowd crowded cry cube cubes cubic cucumbers
cultural culture cupcake cupcakes cups cure current currently curtains customer customers customs cuts cutting cycle
cycles cylinder daily damage damaged damp dancer dancing danger dangerous date dates de deal deaths debt decide
decides decimal decorate decoration decorative decrease decreased decreases deep defense defined degree degrees delete
delicious deliver delivered delivering delivers delivery demand denominator dental dentist depending depends depth
describe describes designed designs desire desired desk desktop dessert destroyed detect determine determined develop
developed developing device devices deviled diagonal diagram dialogue diameter diamond diamonds diaper dice dictionary
did die died diet differ difference different difficult dig digit digital dimension dinner dip direct directed
direction directions directly dirt dirty disconnected discount discounted discover discovered disease diseases dish
dishes dishwasher disorder disorders display disposable distance distant distinctive distribute distributed
distribution diverse divide divided divides division do doctors does doesn dog doing doll dollar dollars dolls
domestic don donate donated done donut door doors doses doubled doubles down download downward dozen drag drank draw
drawing drawn dream dress drinking drinks driver drives driveway driving drop dropped dropping drops duck ducks due
dumbbell dumplings during duty each ear earlier early earn earnings ears easier easiest easily eat eaten eating eats
economic edge edges editing edits education effect effective effectively effects efficiently effort eggplant eight
elastic electric electrical electricity electronic electronics element elevator eliminate else email emotions employed
employees empty encourage encouraged end ended ends energy engage engine engineering enjoy enormous enough enrollment
enrolls ensure ensuring entail enter entering enters entertainment entire entrance entrances environment equal equally
equals equation equations equipment equivalent eraser error escape essential established estate estimate estimates etc
ethnic even evenly event events eventually ever everyday everyone everything evidence exact exactly example exceeded
exceedingly excess excessive exchange exclusively executed exercise exercises exercising exist existing exists expand
expect expectancy expected expenses expensive experience experienced experiments expired explode exposure expressed
expression expressions extend extension exterior extra extract extras extreme extremely eyes fabric face faces facing
fact factor factors factory failure failures fair fall family famous fan fancy far farther fashion faster fat father
favor favorite fears feature features fee feeder feeders feel feels fees feet fell female females fence few fewer
fiber field fields fifteen fifth fifty fight figures file files filled filling final finally financial finding finds
finger fingers finish finished finishes fire fireplace fires firm firmly fish fishing fits fix fixed flag flap flash
flashlight flat flavor flavored flew flies flights floor floors flour flow flowers flowing flown fluid fly flying
focus foil fold folded folding follow followed following foods foot footage football footballs foreign forgot form
formed formula forth fortune forward found founded founder fourth fraction fragrance frames framework free freely
freeze freezing frequently friend friends fries frogs front frost fruits fruity frying fuel full fully fun function
fund funding fur furniture further gain gains gallon gallons game gap garbage garment gas gasoline gather gave gems
general generally generate generous genetics gently gets getting giant gift girls give gives giving glasses global
glove go goal goat gods goes going golden goods got gotten grades gradually graduates graham grains grams grape grasp
grass gravel gravitational gravity greater greatest greeting grew grilled groceries grocery groom ground grounds
groups grow growing grown grows growth guarantee guaranteed guess guinea guitar gum guns gust gut gym had halfway
halves ham handbag handful handles hands hang hanger hanging happen happening happens happy hard harder hardware harm
harmful harvest harvested has hash hat have having hay he head headache headaches headed heads healthier hear heard
heart heat heats heavier heavy height helium help helped helping helps hence hens her here hid hidden hide hiding
higher highest highly hiking him himself hip hire his historical hit hitting hold holding holds hole holes holiday
home homemade hop horizontal horizontally horse horses hospital host hotdog hotel hour house household houses housing
how however human humans humid hump hungry hunting husband hybrid hydrogen iced ideal ideas identical identify
identifying identity illness image images immediately immune impact implement implements impossible improve improved
inch inches incident include included includes including income incomes incomplete increase increased increases
increasing increment independent index indicate indicated indicates individual individually individuals indoor indoors
industrial industry inequality infected infection inflate inflated inflation influence inform information ingredients
initial initially injured ink inner inputs insect insects insert inserted inside inspiration install installed instant
instead institutions insurance integer intelligence intensity interest interesting interior internal intersection
interstate intervals into invasive inventory invested investment investments invite involve involved involving is
isolated issue issues item items its itself jacket jeans jello jellybeans jewelry jobs joined joint journey juices
jump jumps junk just kangaroos keeping keeps kept kernels key keyboard keys kg kick kicked kids kill killed kills kind
kinds kit kitchen km knew knit knock know knowing knowledge known knows lab label lace lack ladder lake lamp landed
landing lands lane language languages lap laps laptop large larger largest lasts late later laundry law lawnmower
lawyer lawyers lay layer layers lbs lead leader leaders leadership leads leaf lean learn learned learning leather
leave leaves leaving ledge left leftover legal legally lego lemons length lengths lens lenses less lessons lets letter
letters lettuce level levels library lie lies life lift lifting lighter lighting lightly lights likely likes limbs
limit line lined link linked links listening lit liter literally live lived lives living load loaded loan local
located location log logs lollipop long longer longest looking looks loop loose lose loses losing loss lost lot lots
loud loves low lower lowest loyalty lucky luggage lumber lunch lying macaroni machine machines made magazine magazines
magnetic magnets mail main mainly maintain major majority makeup making male males management managers manufacturers
many map marble marbles marked markets married marshmallow marshmallows masks mass match matches material mathematical
matter maximize maximum me meal meals meaning meanings means meant measure measured measurements measures measuring
meat meatballs mechanic mechanical media median medical medicine meditating meditation medium meet meeting melting
melts member members memory men mental mention menu merchandise merchant message messages metallic meters methods
microwave midpoint might mile military million min mind minimal minimum mint minus minute minutes mirror mirrors
missed missing mistake mittens mixing mixture ml mm mobile model models moderate modern moisture moment moments money
monitor monkeys month months more morning most move moved movement moves movies moving mow mower much muffin mug
multiple multiplication muscle muscles mushrooms music my mystery myth nail nails named names narrow national natural
nature near nearby nearest nearly necessarily necessary necklace necklaces need needed needing negative neighborhood
neighbors neither nest nesting net network neutral never news newspaper newspapers night nine non noon nor normal
normally nose notable note notes nothing noticed notices novel novels now nuclear number numbers nutrients nutrition
nutritional oats obese objects observe observed obtain obtained occupied occur occurs ocean odd offer offered offering
offers official often oils older oldest omelet ones online onto open opened opening operates operating operations
operator opinion opinions opportunities opposite opted optimization option options oranges orbit orbits orchid order
ordered ordering orders organic organizations organize organized organizing orientation original originally originated
other others ounce ounces outcomes outdoor outdoors outer outlet outline outside oven overall overhead overlap
overnight owes owner pack package packages packaging packed packet packets packing pad pads page pages paid pail paint
painting paintings paints pair pairs palette palm pan pans pantry pants parallel parchment parentheses parents parking
part partially participate particle particles particular partners parts pass passed passes passing passion past pasta
pastry path paths patients patio pattern patterns pay paying payment pays peace peak peanut peanuts peas peeled
peeling peels pencil pennies penny pens pepper per percent percentage perception perfectly perform performance
performances performed perfume perimeter period periods permanent permanently permission personal personalities
personality pest pesticides pet pets phenomenon phone phones photo photograph phrase physical physically pi picked
picking picks picture pictures pie piece pig piggy pigment pile pill pillow pink pins pipes pitcher pith pizza placed
placement places placing plan plane planes planet planets plank planks planning plans planted plate plates platter
play played player players playing plays plums pocket pods pointed pointer pointing pole poles police policies policy
political politics polynomials pond pool poorer popcorn popping popsicles popular population porcupines pork port
portable portion portions position positive possible possibly posts pot potato potential pots potted potting pound
pounds poured pours poverty powdered powerful practice practices prayer pre precise predict prefer preference
preferences pregnancy prepared preparing prepping present presents press pressed presses pressure pretzels prevent
prevents previous previously price priced prices primary prime principle printed prints prior private pro
probabilities probability probably problem problems process processes produce produced producer produces producing
product production products professional program programs promote promoted promotion proof proper properly properties
property proportion proportional protect protected protein proton protons proven provide provided provides proving
psychological psychology public published pulled pulling pumpkin puppies puppy purchased purchases purpose purposes
purse puts putting pyramid pyramids quadruple quality quantities quantity quart quarter quarters quarts question
questions quickly quilt quiz rabbit rabbits race races rack radiation radiator radio radius raft rainbow raised raises
ramp ran random randomly range rapid raspberries raspberry rat rate rates ratings ratio rats raw razor razors reach
reached reaches reaching reaction reading reads really reason reasonable reasons receive received receiver recent
recently recipe recipes recommended record recorded recording recordings records rectangle rectangular recycle reduce
reduced reducing refer reference refers reflect reflection refrigerator refuse regardless register regular regularly
regulate rejected related relation relationship relative relatively relax release released religion religious remain
remainder remained remaining remains remote remove removed removes removing rent rental rents repair repairs repeat
repeatedly repel replace replaced replacing reported reports represent represented representing represents require
required requirements requires requiring rescue research residents residual resistance resources respectively respond
response responsibilities responsible rest restart restaurant rests result resulting results retailer retain
retirement retrieve retrieved returned returning returns reveal revenue revolve reward ribbon rich richer richest rid
ride rides riding right rigid rim ring rise rises rising risk road robots rocks rod role roll rolled roller rolling
rolls roof room rooms roots rope ropes rotate rotations rough rounds route routine row rows rub rubbing rug ruined
rule run running runs sad safe safely said sailors salary sales salesman salmon same sample sandwich satisfy sausages
saute saved saving say says scales scarf scenario scent scents scheduling scientist scoop scooped scoops score scored
scores screen screws scrub search season seasonal seasoned seasoning seat seats seconds section sections see seed
seeds seeing seek seeks seen sees segments selected self selfie sell seller sells semi send sending senior sense
senses sent sentence sentences separate separated sequence sequences series serve served serves services serving sets
setting settings several sewing shade shampoo shape share shared shares sharing sharks sheep sheet sheets shelf shell
shells shelves shift shine shipping shirt shirts shoe shoes shoot shoots shopping shore short shorter shortest shorts
shot should shove shovel show shower showing shown shows siblings sick side sides sign signal signatures signed
significant significantly signs silver similar simple simplified simply simultaneously sin since sing singer singing
single sink sisters sit site sits sitting situation situations six size sized sizes skills skip sky sleep sleeping
sleepwalker sleeve sleeves slice slices slide sliding slightly slipping slit slowly smaller smallest smash smashed
smell smelling smoke smoking snails snakes snap snowball so soccer society socks sofa sofas soft software soil sold
soldiers solenoid solid solo solution solve solved someone something somewhat son song soon soothe sounds soup sour
source sources southern souvenir soybeans spaces span speak speaking specific specifically specified speech speed
spelling spend spending spends spent sphere spherical spider spiders spill spilled spin spins spirits spiritual split
splits splitting spoons spot spots spread spreading spring spy square squared squares squats squirt stable stage
stages stain stamps stand standing stands staple stars start started starting starts statements static statues stay
staying stays steady steak steel steps stick sticker stickers sticks still stock stomach stone stop stopped stopping
stops storage store stored stores stories storing stove straight strands strangle straw strawberries straws strength
stress stretch strike striking string strings stripes strong stronger strongest strongly structure stuck student
students studying stuff stuffed stuffing sub subject subsequent substance substitute subtract success successful such
sucking sufficient sugar suit suitable suitcase suits sum sunbathing sunscreen super supermarket suppliers supplies
supply supplying supported supports supposed surface surgery surroundings survive suspect swallow sweetened sweeter
sweets swim swimming swims swinging switch sword symbol symbols symmetric synthetic systems tables tablespoon
tablespoons tablet tails take taken takes taking talent talk talking tall taller tank tap tape target targeted tart
task tasks taste tastes tasting taught tax taxes tea teach teacher teachers teaches team teaspoons tech technology
teeth telephone television tells temperature temporary ten tend tender tends tennis tenth term terminal terms test
testing tests text textbook than that theater their them theme themselves then theory therapy therefore these thick
thickness thing things think thinking thinner thirds thirty though thought thread threat threatened thrice through
throughout throw thrown thus ticket tide tie tied ties tile tiles till timer tin tins tip tire tires tissue title toad
tobacco today toe toffee told tomato tomatoes tongue tons too took tool tools tooth toothpaste toothpick toothpicks
tops torque toss total touch touching toward towards towel towels toxic toxins toy toys trace track trade trading
traffic trail trails train trained training trains traits translated translates transmission transport transportation
trash travel traveled traveling travelling travels tray trays treat treated treats trees trends trial tried tries
trigger trim trip tripled triples trips trouble trousers trout truck trust truth try trying tub tube tubes tubs tulips
tuna tune turn turned turning turnover turns twenty twice types typical typically typing umbrella un unconscious
uncooked undergoes underline underneath understand understanding unequal uniform unique unit unknown unless unlikely
unsweetened until unused up update upload upon upper upright ups upward upwards urban use used useful user uses usual
usually utensils utility vacation vacations vaccine vaccines vacuum valid values variable varies variety various vary
varying vase vases vegetables vehicles vendor version vertical vertically very vet via vice victim victims video
videos view views vines violence virtually visible visit visited visiting visual vitamins voice volleyball voltage
volume vote vs wage waist wait waiting waits wake walk walked walking walks wallet wallpaper walls walnuts want wanted
wants wardrobe warm warmer warming was wash washed washing waste watched watching watered waterfall watering
watermelon wave wavelength ways weak wearing weather website websites wedding weed week weekends weekly weeks weigh
weighs weight weights well were wet whatever wheat wheels whenever where whether which while who whole whose wick wide
widely wider width wife win window wine wings winner winning wins winter wiped wires wish wishes with within without
wolf wolves woman won wool word wore work worked worker working workout works workstation worn worse worst would wound
wrapped wrapping writes writing written wrong wrote yams yard yards yarn years yet young yourself zest zoo
"""

EITHER_CASE = """
a about act activity add address after age ages air airport all am an analog and ant any apple approximately area
around art as assume at avocado ax back bacon bad bag bakery baking ball balls banana bank bar barbecue bars base be
beef bees bell berry best better beyond big bill birth black blood blue blueberry book bottles bowl bowling box boy
breakfast brown build building bull burger burning business butter buy cake candle candy cannon cannot cape cards
center century chain changes cherries chicken children chile chili chip chocolate church cinnamon city clear cocoa
college colored combine company connect cookie cookies cooking cool cooler corn country cows cream creation crime
cross cup cut dance dark data day days dead death deck density design development dishwashing doctor dogs double
dragon dragons drill drink drive dry earth east easy efficiency egg eggs either euros every evil examples except
experiment express eye fairy falling falls false farm farmer farmers fast feed feeling figure fill film find fine
first fit five flight flower food for force forces forest format four frame freezer french fresh fried frog from
frozen fruit fry fudge fundamental future games garden gear get girl given glass glue gluten goddess gold golf gone
good government grade granola grapes great greek green group gun hair half halved hand happiness health healthy held
high history hive homes honey hot hours i ice idea if important in instructions international internet iron island it
jack jam jar jars jelly jigsaw job join juice karma keep killer killing king land last lawn laws least led legs lemon
lemonade let light like lily lines liquid list little loaf logic look love magic make makes man mark market marketing
marks mashed mask master masters materials math may mean melt metal method middle miles milk mini miss mix mixed mode
monkey moon mother motion motor mount mountain mouse mouth movie mph muffins multiply must name nation needs new next
no north not oak oatmeal object of off office oil old on once one onion onions only or orange origin our out over own
oz painted paper parallelogram park parks parmesan party peaches peel pen pencils people peppers perfect person pick
pieces pigs pinch pine pineapple pipe pizzas place plant plants plastic plus pm point points poison pop popsicle post
potatoes pour power prepare president printer processor profit programming project protection pull pump purchase pure
purple push put rain raise raisins read reader ready real red region remember removal report resolution return rice
rights rings rock root rose roses roughly round rubber ruler salad salt sand sauce save saw school science sea second
secret secure selling service set seven she ship shop sixth skin sliced slow small smooth snake snow social soda solar
some sometimes songs sound south space speaker special species sports sprinkles stack standard star state statement
states station step stitch stones story strawberry street strikes strip studies study suicide summer sun sunflower
support sure sweet swirl system table teddy tell the there they third this those three time times tips to together top
town transfer tree triangle true two type ugly under unicorns units university us using value vanilla varnish
vegetable wall watch water watermelons way we wear web west what when white wild will wind windows wire witch women
wood wooden words world wrap write year yellow yes yoga yogurt you your zero
"""
